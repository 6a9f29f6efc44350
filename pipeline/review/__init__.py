"""The review by a person: pages to decide on, and the decisions."""
