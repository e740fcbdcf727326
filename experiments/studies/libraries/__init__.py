"""What the audit says of attention functions of public packages."""
