package clientgo

import (
	"time"

	"k8s.io/klog/v2"
)

// A resyncPeriod decides at which period handlers get their resyncs.
type resyncPeriod struct {
	standard time.Duration // of a handler that asks for none
	check    time.Duration // the shortest period before the start; 0: there are no resyncs
	asked    bool          // each handler gets what it asks for, whatever the informer does
}

const shortestResync = time.Second

// of returns the resync period of a handler that asks for wanted, or does not ask if wanted is nil.
func (p *resyncPeriod) of(wanted *time.Duration, started bool, logger klog.Logger) time.Duration {
	period := p.standard
	if wanted != nil {
		period = *wanted
	}
	if period <= 0 {
		return 0
	}
	if period < shortestResync {
		logger.Info("The resync period is too short, and becomes the shortest possible one", "resyncPeriod", period, "shortest", shortestResync)
		period = shortestResync
	}
	switch {
	case p.asked:
	case p.check == 0:
		logger.Info("The handler gets no resyncs, because its informer was made with the resync period 0", "resyncPeriod", period)
		return 0
	case period < p.check && started:
		logger.Info("The resync period becomes that of the informer, which has started with a longer one", "resyncPeriod", period, "ofInformer", p.check)
		period = p.check
	case period < p.check:
		p.check = period
	}
	return period
}
