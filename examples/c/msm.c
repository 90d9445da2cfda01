/* Sums points by scalars: `msm POINTS SCALARS` reads 64 bytes per point (x, then y) and 32 per scalar, all
 * little-endian, and prints the coordinates of the sum.
 *
 *     make lib
 *     cc -O2 -I build/lib/include examples/c/msm.c -L build/lib -lwhet_msm -Wl,-rpath,build/lib -o msm
 */
#include <stdio.h>
#include <stdlib.h>
#include <whet_msm.h>

static uint8_t* read_file(const char* path, size_t* size) {
    FILE* file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(2);
    }
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t* bytes = malloc(*size == 0 ? 1 : *size);
    if (bytes == NULL || fread(bytes, 1, *size, file) != *size) {
        perror(path);
        exit(2);
    }
    fclose(file);
    return bytes;
}

static void require(whet_msm_status status) {
    if (status != WHET_MSM_OK) {
        fprintf(stderr, "msm: %s\n", whet_msm_error());
        exit(2);
    }
}

static int show(double done, void* user) {
    *(double*)user = done;
    return 0;
}

static void print_number(const char* name, const uint8_t* little_endian) {
    printf("%s 0x", name);
    for (int i = 31; i >= 0; --i) printf("%02x", little_endian[i]);
    printf("\n");
}

int main(int argc, char** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: msm POINTS SCALARS\n");
        return 2;
    }
    size_t points_size, scalars_size;
    uint8_t* points = read_file(argv[1], &points_size);
    uint8_t* scalars = read_file(argv[2], &scalars_size);

    whet_msm_engine engine;
    uint8_t sum[64];
    double done = 0;
    require(whet_msm_new(NULL, 0, &engine));
    require(whet_msm_prepare(engine, points, points_size / 64, WHET_MSM_CANONICAL));
    require(whet_msm_run(engine, scalars, scalars_size / 32, 0, show, &done, sum));
    print_number("x", sum);
    print_number("y", sum + 32);

    whet_msm_free(engine);
    free(points);
    free(scalars);
    return 0;
}
