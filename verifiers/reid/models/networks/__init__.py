"""Networks in plain torch. Importing them imports torch, so that callers import them where they are used."""
