package natskit

// Learn takes the scheme of the partitions as it was at a time.
var Learn = (*Conn).learn
