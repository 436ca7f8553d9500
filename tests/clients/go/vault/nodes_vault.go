// Calls at two nodes of a shared database: the states of answers, which OpenBao's module lacks.
package main

import (
	"fmt"
	"os"

	vault "github.com/hashicorp/vault/api"
)

func init() {
	parts["nodes"] = nodes
}

// nodes writes at one node and reads at the other: with the callbacks for states, with two merged
// states, and with a client that reads its own writes. The variable OTHER_ADDR is the URL of the
// other node.
func nodes() {
	one, other := client(), client()
	check(other.SetAddress(os.Getenv("OTHER_ADDR")))
	var states []string
	for round := 0; round < 20; round++ {
		states = writeAndRead(one, other, states, fmt.Sprint(round))
		one, other = other, one
	}
	demand(len(states) == 1, "states of one cluster are merged: ", states)
	own := client()
	own.SetReadYourWrites(true)
	addresses := []string{own.Address(), os.Getenv("OTHER_ADDR")}
	for round := 0; round < 20; round++ {
		check(own.SetAddress(addresses[round%2]))
		value := fmt.Sprint("own ", round)
		must(own.Logical().Write("secret/a", fields{"round": value}))
		check(own.SetAddress(addresses[(round+1)%2]))
		read := must(own.Logical().Read("secret/a"))
		demand(read.Data["round"] == value, read.Data, " instead of ", value)
	}
}

// writeAndRead writes value with writer, and reads value with reader. It returns the merged states.
func writeAndRead(writer, reader *vault.Client, states []string, value string) []string {
	var state string
	recording := writer.WithResponseCallbacks(vault.RecordState(&state))
	must(recording.Logical().Write("secret/a", fields{"round": value}))
	demand(state != "", "no state in the answer")
	merged := vault.MergeReplicationStates(states, state)
	requiring := reader.WithRequestCallbacks(vault.RequireState(merged...))
	read := must(requiring.Logical().Read("secret/a"))
	demand(read.Data["round"] == value, read.Data, " instead of ", value)
	return merged
}
