"""The paper and nothing else: slots → PCN → losses → moving average → Algorithm 1 → Algorithm 2."""
