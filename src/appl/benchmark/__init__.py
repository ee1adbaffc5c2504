"""The benchmark: rows × targets over the same seeded episodes, results kept one by one."""
