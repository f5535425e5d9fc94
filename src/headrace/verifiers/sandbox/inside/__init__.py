"""What runs inside the sandbox. Standard library only, and little of it: every import is paid for by each start."""
