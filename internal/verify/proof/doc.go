// Package proof tests package lw as a whole, with histories instead of cases. A history is what
// happens to a server and to an informer of it: writes, faults, time that passes, handlers that
// come and go. Everything that the informer shows is recorded, and package oracle judges the
// record.
//
//   - TestProof and TestProofHTTP draw histories at random.
//   - TestSmallScope and TestSmallScopeHTTP run all short histories.
//   - TestStress has no history: real goroutines use one informer at once.
//   - [Random] and [SmallScope] are TestProofHTTP and TestSmallScopeHTTP over another transport,
//     such as the WebSockets of module websocket.
//   - TestAcceptanceTable names the test for each behaviour that client-go's own tests check.
//
// README.md says what is proved, and how to run more of it.
package proof
