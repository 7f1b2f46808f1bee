"""The console's settings: `conf/console.toml` and the file that `--config` names."""
