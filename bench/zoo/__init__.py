"""The models of the benchmarks and of the parity tests."""
