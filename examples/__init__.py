"""Examples and demos of the project; not part of the wheel."""
