"""Schemas: what the messages of a topic must be, and which columns they become.

Standard library and the codec alone. Start with `schema_version`, then `column_types`. What a
format says becomes columns in `json_columns` and `avro_columns` (Protobuf's in `formats`, whose
library reads descriptors); `formats` reads bodies into rows.
"""
