"""Networks in plain torch. These modules import torch at once, so they are imported where they are used."""
