"""Schemas: rules for the messages of a topic, and the columns that they become.

Standard library and the codec alone. Start with `schema_version`, then `column_types`.
`json_columns` and `avro_columns` turn definitions into columns; `formats` does so for Protobuf, as
its library reads descriptors, and reads bodies into rows.
"""
