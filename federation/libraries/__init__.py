"""Libraries of secure computation: installed beside the package, each run in a process of its own."""
