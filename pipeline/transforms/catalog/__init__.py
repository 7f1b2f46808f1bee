"""Tables and views as a catalog has them: permanent, with comments, and as sources of dbt.

It may import `transforms.schema`. A view here is SQL alone (`sql/`): a catalog keeps its text, and
asks no Python. Start with `relations`.
"""
