TARGET = "requester_received_pizza"
