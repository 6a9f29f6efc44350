"""What schemes that share masked embeddings, or scores of them, give away: embeddings recovered from them."""
