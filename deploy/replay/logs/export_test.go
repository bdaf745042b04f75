package logs

// OpenLimited is Open with a limit that a test can reach.
var OpenLimited = open
