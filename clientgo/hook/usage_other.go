//go:build !unix

package hook

import (
	"os"
	"time"
)

func notifyReport(chan<- os.Signal) {}

func usage() (user, system time.Duration, peak int64) { return 0, 0, 0 }
