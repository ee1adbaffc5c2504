"""Solving a task: the paper's Algorithm 2, then the paper's answer or ours."""
