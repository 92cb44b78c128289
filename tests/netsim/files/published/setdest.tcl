# nodes: 2, pause: 0.00, speed type: 1, max speed: 2.00
$node_(0) set X_ 0.0
$node_(0) set Y_ 0.0
$node_(0) set Z_ 0.000000000000
$node_(1) set X_ 50.0
$node_(1) set Y_ 10.0
$node_(1) set Z_ 0.000000000000
$god_ set-dist 0 1 1
$ns_ at 10.000000000000 "$node_(0) setdest 100.0 0.0 2.0"
$ns_ at 35.0 "$node_(0) setdest 50.0 40.0 5.0"
$ns_ at 60.0 "$node_(1) setdest 50.0 10.0 0.0"
$ns_ at 40.0 "$god_ set-dist 0 1 2"
