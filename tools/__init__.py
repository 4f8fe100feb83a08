"""Programs that write code or documents of this repository; nothing here runs in the broker."""
