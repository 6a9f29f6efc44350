"""The review by a person: pages out, decisions in."""
