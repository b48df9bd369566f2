//go:build !unix

package main

import "os"

// askReport stands for a signal that there is none of: -bench says that it cannot be sent.
var askReport = os.Interrupt
