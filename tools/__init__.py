"""What maintainers run; none of it is part of the wheel."""
