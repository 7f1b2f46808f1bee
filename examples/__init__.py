"""What the project shows of itself; none of it is part of the wheel."""
