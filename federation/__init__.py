"""What two or more hospitals do together without showing each other their data."""
