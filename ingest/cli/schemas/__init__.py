"""The commands `distributary schema`: of a running gateway, and over messages of a home's log."""
