"""File formats, by bytes and limits alone: no policy and no patient is known here."""
