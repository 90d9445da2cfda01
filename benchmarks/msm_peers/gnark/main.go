// gnark-crypto behind lines of JSON, as peer_python.py: {"load": threads}, then {"calls": how many in a row}.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
)

type request struct {
	Files map[string]string `json:"files"`
	Load  int               `json:"load"`
	Calls int               `json:"calls"`
}

type peer struct {
	threads int
	points  []bn254.G1Affine
}

// Both fields keep four limbs from low to high in Montgomery form, which is what the files hold.
func limbs(into *[4]uint64, data []byte) {
	for i := range into {
		into[i] = binary.LittleEndian.Uint64(data[8*i:])
	}
}

func (p *peer) load(files map[string]string, threads int) error {
	data, err := os.ReadFile(files["points_montgomery"])
	if err != nil {
		return err
	}
	p.threads = threads
	runtime.GOMAXPROCS(threads)
	p.points = make([]bn254.G1Affine, len(data)/64)
	for i := range p.points {
		limbs((*[4]uint64)(&p.points[i].X), data[64*i:])
		limbs((*[4]uint64)(&p.points[i].Y), data[64*i+32:])
		if !p.points[i].IsOnCurve() {
			return fmt.Errorf("point %d is not on the curve", i)
		}
	}
	return nil
}

func scalars(path string) ([]fr.Element, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	values := make([]fr.Element, len(data)/32)
	for i := range values {
		limbs((*[4]uint64)(&values[i]), data[32*i:])
	}
	return values, nil
}

func cpuMilliseconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return 1e3*float64(used.Utime.Sec+used.Stime.Sec) + 1e-3*float64(used.Utime.Usec+used.Stime.Usec)
}

func (p *peer) run(values []fr.Element, calls int) (map[string]any, error) {
	var sum bn254.G1Affine
	config := ecc.MultiExpConfig{NbTasks: p.threads}
	start, cpu := time.Now(), cpuMilliseconds()
	for range calls {
		if _, err := sum.MultiExp(p.points, values, config); err != nil {
			return nil, err
		}
	}
	wall := float64(time.Since(start).Nanoseconds()) / 1e6 / float64(calls)
	cpu = (cpuMilliseconds() - cpu) / float64(calls)
	return map[string]any{"wall_ms": wall, "cpu_ms": cpu, "x": sum.X.String(), "y": sum.Y.String()}, nil
}

func (p *peer) answer(line []byte) (map[string]any, error) {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	if asked.Load > 0 {
		start := time.Now()
		if err := p.load(asked.Files, asked.Load); err != nil {
			return nil, err
		}
		return map[string]any{"wall_ms": float64(time.Since(start).Nanoseconds()) / 1e6}, nil
	}
	if p.points == nil {
		return nil, errors.New("nothing is loaded")
	}
	values, err := scalars(asked.Files["scalars_montgomery"])
	if err != nil {
		return nil, err
	}
	return p.run(values, max(asked.Calls, 1))
}

func main() {
	var library peer
	lines := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		answer, err := library.answer(line)
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			return
		}
	}
}
