"""What can be removed: each folder can be deleted and everything else still works."""
