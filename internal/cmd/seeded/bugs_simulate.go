package main

const (
	simulated         = "./bench/internal/simulate"
	simulateResources = "bench/internal/simulate/resource.go"
	simulateServe     = "bench/internal/simulate/serve.go"
	simulateBody      = "bench/internal/simulate/body.go"
	simulateServer    = "bench/internal/simulate/server.go"
)

// simulateBugs are of the model of a server from which the figures of bench/results/scale.md are.
var simulateBugs = []bug{
	{name: "the simulated server's work goes to one core", run: "TestCores", in: simulated, edits: one(simulateResources,
		"			first = i\n", "			_ = i\n")},
	{name: "the simulated server forgets that it is busy", run: "TestCores", in: simulated, edits: one(simulateResources,
		"if now := time.Now(); at.Before(now)", "if now := time.Now(); !at.Equal(now)")},
	{name: "a simulated request overtakes the queue", run: "TestSeats$", in: simulated, edits: one(simulateResources,
		"if s.queued == 0 && s.free >= width", "if s.free >= width")},
	{name: "a simulated request that is gone keeps its place", run: "TestSeats$", in: simulated, edits: one(simulateResources,
		"	s.queued--\n	s.serveLocked()\n", "	s.serveLocked()\n")},
	{name: "a simulated list keeps its seats", run: "TestSeatsAreKept|TestStart", in: simulated, edits: one(simulateBody,
		"		b.s.seats.give(b.width)\n", "")},
	{name: "the simulated server knows all versions", run: "TestRestart|TestTakeOver", in: simulated, edits: one(simulateServe,
		"expired := from < s.oldest", "expired := from < s.oldest && false")},
	{name: "a client of the simulation knows the version after the restart", run: "TestTakeOver", in: simulated, edits: one(simulateServer,
		"	if dead {\n		return s.final\n	}\n", "")},
	{name: "the simulated server is ready at once", run: "TestRestart", in: simulated, edits: one(simulateServe,
		"if time.Now().Before(ready) {", "if false && time.Now().Before(ready) {")},
	{name: "a stream costs the simulated server what a whole list costs", run: "TestCost", in: simulated, edits: one(simulateBody,
		"		b.cpu = m.StreamCPU\n", "")},
}
