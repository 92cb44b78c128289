# Two carts: one drives along a corridor and turns, the other stands.
$node_(0) set X_ 0.0
$node_(0) set Y_ 0.0
$node_(0) set Z_ 0.0
$node_(1) set X_ 30.0
$node_(1) set Y_ 5.0
$node_(1) set Z_ 0.0
$ns_ at 5.0 "$node_(0) setdest 60.0 0.0 2.0"
$ns_ at 25.0 "$node_(0) setdest 40.0 15.0 3.0"
