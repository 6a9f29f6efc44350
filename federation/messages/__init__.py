"""Messages between parties: signed, encrypted for one recipient, and of limited size."""
