"""Names the variables by which a worker hands a child what it needs; light, because the child reads them first."""

SOCKET_FD = "FOREBAY_CHILD_SOCKET"
LIFELINE_FD = "FOREBAY_CHILD_LIFELINE"
TICKETS_FD = "FOREBAY_CHILD_TICKETS"
PATHS = "FOREBAY_CHILD_PATH"
MEMORY = "FOREBAY_CHILD_MEMORY"
CPU = "FOREBAY_CHILD_CPU"
PARENT = "FOREBAY_CHILD_PARENT"
