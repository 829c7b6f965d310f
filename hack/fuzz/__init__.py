"""A fuzzer: hostile objects of every kind, drawn from the API's schemas, and checks of the operator."""
