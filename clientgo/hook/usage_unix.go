//go:build unix

package hook

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// notifyReport sends to asked when somebody wants the report.
func notifyReport(asked chan<- os.Signal) { signal.Notify(asked, syscall.SIGUSR1) }

// usage returns the CPU time and the peak of the memory of the process.
func usage() (user, system time.Duration, peak int64) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, 0, 0
	}
	peak = int64(r.Maxrss)
	if runtime.GOOS != "darwin" {
		peak *= 1024
	}
	return time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano()), peak
}
