"""Tables and views as a catalog has them: permanent, with comments, and as sources of dbt.

It may import `transforms.schema`. A view here is SQL alone (`sql/`), because a catalog keeps its
text and runs no Python. Start with `relations`.
"""
