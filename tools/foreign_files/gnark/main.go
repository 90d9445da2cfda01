// Files that gnark-crypto itself writes, for tests/data/foreign; README.md beside this folder says what is in them.
package main

import (
	"bytes"
	"fmt"
	"log"
	"math/big"
	"os"
	"path/filepath"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark-crypto/ecc/bn254/kzg"
)

const tau, powers = 1234567, 5

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// 1, -1, 0, 2, -2, 2^200 + 5 and its opposite: the factors of the generator in the file.
func factors() []*big.Int {
	long := new(big.Int).Lsh(big.NewInt(1), 200)
	long.Add(long, big.NewInt(5))
	return []*big.Int{
		big.NewInt(1), big.NewInt(-1), big.NewInt(0), big.NewInt(2), big.NewInt(-2), long, new(big.Int).Neg(long),
	}
}

func main() {
	folder := os.Args[1]
	write := func(name string, fill func(*bytes.Buffer) error) {
		var content bytes.Buffer
		must(fill(&content))
		must(os.WriteFile(filepath.Join(folder, name), content.Bytes(), 0o644))
	}

	srs, err := kzg.NewSRS(powers, big.NewInt(tau))
	must(err)
	write("gnark_srs_raw", func(to *bytes.Buffer) error { _, err := srs.WriteRawTo(to); return err })
	write("gnark_srs_compressed", func(to *bytes.Buffer) error { _, err := srs.WriteTo(to); return err })
	write("gnark_srs_dump", func(to *bytes.Buffer) error { return srs.WriteDump(to) })

	_, _, generator, _ := bn254.Generators()
	var points []bn254.G1Affine
	var scalars fr.Vector
	for i, factor := range factors() {
		var point bn254.G1Affine
		reduced := new(big.Int).Mod(factor, fr.Modulus()) // the library takes factors below the order
		points = append(points, *point.ScalarMultiplication(&generator, reduced))
		var scalar fr.Element
		scalars = append(scalars, *scalar.SetBigInt(factor).Add(&scalar, new(fr.Element).SetUint64(uint64(i))))
	}
	write("gnark_points_raw", func(to *bytes.Buffer) error {
		return bn254.NewEncoder(to, bn254.RawEncoding()).Encode(points)
	})
	write("gnark_points_compressed", func(to *bytes.Buffer) error { return bn254.NewEncoder(to).Encode(points) })
	write("gnark_points_concatenated", func(to *bytes.Buffer) error {
		for i := range points {
			compressed := points[i].Bytes()
			to.Write(compressed[:])
		}
		return nil
	})
	write("gnark_scalars", func(to *bytes.Buffer) error { _, err := scalars.WriteTo(to); return err })

	var sum bn254.G1Affine
	_, err = sum.MultiExp(points, scalars, ecc.MultiExpConfig{})
	must(err)
	write("gnark_sum", func(to *bytes.Buffer) error {
		_, err := fmt.Fprintf(to, "%s\n%s\n", sum.X.String(), sum.Y.String())
		return err
	})
}
