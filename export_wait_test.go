package lw

// Waits returns how many waits for a version inf has, and how many each event looks for.
func Waits[T Object](inf *Informer[T]) (n, noted int) {
	inf.waits.mu.Lock()
	defer inf.waits.mu.Unlock()
	return len(inf.waits.waits), int(inf.waits.n.Load())
}
