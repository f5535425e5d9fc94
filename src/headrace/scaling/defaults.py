"""What fits, forecasts and the live view agree on."""

COMPUTE_FIELDS = ("device_s", "flops", "tokens_trained", "tokens_generated", "steps")
"""Units of compute that every evaluation of a run carries; the first is the default."""

LEVEL = 0.9
"""Of intervals."""
