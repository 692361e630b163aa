// Convolutions of few channels, and the gradients of their kernels.
//
// A pixel's channels lie side by side: images are [images, rows, columns, channels], kernels
// [K, K, in, out]. With zeros around the images, the row of a window is K * in numbers in one piece,
// and its neighbour's begins `stride` pixels further on. So a convolution is a matrix product whose
// left matrix is never written down: its rows overlap in the images themselves. The gradient of the
// kernel is the product of that matrix, turned, with the gradient of the output.
//
// Both are sums over a walk through two matrices, of which a block is kept in registers: some rows,
// and some vectors of output channels. A sum's order depends on the shapes alone, not on the machine.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

namespace {

#ifdef __AVX512VL__
constexpr int REGISTERS = 32;
#else
constexpr int REGISTERS = 16;
#endif
constexpr int VECTOR_BYTES = 32;
// of images, and of what belongs to them, that stay at hand while a kernel's gradient is summed
constexpr int64_t AT_HAND_BYTES = 24 * 1024;

template <typename T, int LANES>
struct Vector {
  // as aligned as its numbers are
  typedef T type __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
};
template <typename T>
struct Vector<T, 1> {
  typedef T type;
};

// How often to step on, and by how much in either matrix.
struct Walk {
  int64_t count, left, right;
};

// out[p][q] = the sum of left[p * step] * right[q], over all places of the walks, of which each has
// at least one.
template <typename T>
struct Product {
  const T* left;
  int64_t step;
  const T* right;
  T* out;
  int64_t out_step;
  bool add;  // to what is in `out` already
  Walk outer, middle, inner;
};

template <typename T, int LANES, int Q, int P>
void block(const Product<T>& product) {
  typedef typename Vector<T, LANES>::type V;
  const int64_t step = product.step, out_step = product.out_step;
  const Walk outer = product.outer, middle = product.middle, inner = product.inner;
  T* const out = product.out;
  V sums[P][Q];
  for (int p = 0; p < P; ++p)
    for (int q = 0; q < Q; ++q)
      sums[p][q] = product.add ? *(const V*)(out + p * out_step + q * LANES) : V{};
  // No walk is empty: loops that might never be entered would have two registers for each sum.
  const T *left = product.left, *right = product.right;
  int64_t i = outer.count;
  do {
    const T *line = left, *lines = right;
    int64_t j = middle.count;
    do {
      // Three rows for each pointer: an address has room for a step, or two. The empty assembler
      // keeps the compiler from having a pointer for each row.
      constexpr int HEADS = (P + 2) / 3;
      const T* heads[HEADS];
      for (int h = 0; h < HEADS; ++h) heads[h] = line + 3 * h * step;
      const T* row = lines;
      int64_t k = inner.count;
      do {
        V vectors[Q];
        for (int q = 0; q < Q; ++q) vectors[q] = *(const V*)(row + q * LANES);
        for (int p = 0; p < P; ++p) {
          const T one = heads[p / 3][p % 3 * step];
          for (int q = 0; q < Q; ++q) sums[p][q] += one * vectors[q];
        }
        for (int h = 0; h < HEADS; ++h) {
          heads[h] += inner.left;
          asm("" : "+r"(heads[h]));
        }
        row += inner.right;
      } while (--k > 0);
      line += middle.left, lines += middle.right;
    } while (--j > 0);
    left += outer.left, right += outer.right;
  } while (--i > 0);
  for (int p = 0; p < P; ++p)
    for (int q = 0; q < Q; ++q) *(V*)(out + p * out_step + q * LANES) = sums[p][q];
}

template <typename T, int LANES, int Q, int P>
void block_of(int64_t height, const Product<T>& product) {
  if constexpr (P > 0) {
    if (height == P)
      block<T, LANES, Q, P>(product);
    else
      block_of<T, LANES, Q, P - 1>(height, product);
  }
}

// `rows` rows of Q vectors, in blocks of about the same height, as high as registers allow.
template <typename T, int LANES, int Q>
void strip(int64_t rows, Product<T> product) {
  constexpr int HIGHEST = std::min(12, (REGISTERS - 1 - Q) / Q);
  for (int64_t blocks = (rows + HIGHEST - 1) / HIGHEST; blocks > 0; --blocks) {
    const int64_t height = (rows + blocks - 1) / blocks;
    block_of<T, LANES, Q, HIGHEST>(height, product);
    product.left += height * product.step;
    product.out += height * product.out_step;
    rows -= height;
  }
}

// Visits strips of all columns, the wider the fewer rows there are: visit(strip, first column).
template <typename T, typename Visit>
void for_strips(int64_t columns, int64_t rows, Visit visit) {
  constexpr int LANES = VECTOR_BYTES / sizeof(T);
  int64_t column = 0;
  if (REGISTERS > 16 && rows <= 6)
    for (; columns - column >= 4 * LANES; column += 4 * LANES) visit(strip<T, LANES, 4>, column);
  for (; columns - column >= 2 * LANES; column += 2 * LANES) visit(strip<T, LANES, 2>, column);
  for (; columns - column >= LANES; column += LANES) visit(strip<T, LANES, 1>, column);
  for (; columns - column >= LANES / 2; column += LANES / 2)
    visit(strip<T, LANES / 2, 1>, column);
  for (; columns - column >= 1; column += 1) visit(strip<T, 1, 1>, column);
}

// Windows over a batch of images.
struct Windows {
  int64_t images, height, width, channels, kernel, stride, before, down, across;

  int64_t tall() const { return stride * (down - 1) + kernel; }
  int64_t wide() const { return stride * (across - 1) + kernel; }
  int64_t taps() const { return kernel * channels; }  // of a row of a window
};

// A batch with what windows have around it.
template <typename T>
struct Padded {
  const T* start;
  int64_t line, image;

  Padded(const T* pixels, const Windows& windows) {
    const int64_t tall = windows.tall(), wide = windows.wide(), channels = windows.channels;
    if (windows.before == 0 && tall <= windows.height && wide <= windows.width) {
      start = pixels, line = windows.width * channels, image = windows.height * line;
      return;
    }
    line = wide * channels, image = tall * line;
    static thread_local std::vector<T> room;
    if ((int64_t)room.size() < windows.images * image) room.resize(windows.images * image);
    start = room.data();
    T* to = room.data();
    const int64_t left = windows.before * channels;
    const int64_t inside = std::min(windows.width * channels, line - left);
    for (int64_t n = 0; n < windows.images; ++n)
      for (int64_t y = -windows.before; y < tall - windows.before; ++y, to += line) {
        if (y < 0 || y >= windows.height) {
          std::memset(to, 0, line * sizeof(T));
          continue;
        }
        const T* from = pixels + (n * windows.height + y) * windows.width * channels;
        std::memset(to, 0, left * sizeof(T));
        std::memcpy(to + left, from, inside * sizeof(T));
        std::memset(to + left + inside, 0, (line - left - inside) * sizeof(T));
      }
  }
};

// The rows of the left matrix: windows, or several neighbours as one wider window, until their
// outputs fill a vector. Its kernel has the windows' own at several places, and zeros beside it; so
// it costs some products with zero, but none with half of a vector. (Zero times infinity is no
// number: a pixel that has overflown spoils its windows' neighbours, too.)
struct Rows {
  int64_t together, outputs, count, step, taps, columns, apart;

  Rows(int64_t outputs, int64_t lanes, const Windows& windows) : outputs(outputs) {
    const int64_t filling = lanes % outputs == 0 ? lanes / outputs : 1;
    const bool pays = windows.kernel > windows.stride && windows.across % filling == 0;
    together = pays ? filling : 1;
    apart = windows.stride * windows.channels;
    count = windows.across / together;
    step = together * apart;
    taps = windows.taps() + (together - 1) * apart;
    columns = together * outputs;
  }

  // Visits each number of the narrow kernel at each of its places: visit(narrow, wide).
  template <typename Visit>
  void for_places(const Windows& windows, Visit visit) const {
    for (int64_t y = 0; y < windows.kernel; ++y)
      for (int64_t which = 0; which < together; ++which)
        for (int64_t tap = 0; tap < windows.taps(); ++tap) {
          const int64_t narrow = (y * windows.taps() + tap) * outputs;
          const int64_t wide = (y * taps + which * apart + tap) * columns + which * outputs;
          for (int64_t output = 0; output < outputs; ++output) visit(narrow + output, wide + output);
        }
  }
};

template <typename T>
void convolve(const T* pixels, const T* kernel, T* out, int64_t outputs, const Windows& windows) {
  const Padded<T> padded(pixels, windows);
  const Rows rows(outputs, VECTOR_BYTES / sizeof(T), windows);
  std::vector<T> wide;
  if (rows.together > 1) {
    wide.resize(windows.kernel * rows.taps * rows.columns);
    rows.for_places(windows, [&](int64_t from, int64_t to) { wide[to] = kernel[from]; });
    kernel = wide.data();
  }
  for_strips<T>(rows.columns, rows.count, [&](auto run, int64_t column) {
    for (int64_t line = 0; line < windows.images * windows.down; ++line) {
      const int64_t image = line / windows.down, y = line % windows.down;
      Product<T> product;
      product.left = padded.start + image * padded.image + y * windows.stride * padded.line;
      product.step = rows.step;
      product.right = kernel + column;
      product.out = out + line * rows.count * rows.columns + column;
      product.out_step = rows.columns;
      product.add = false;
      product.outer = {1, 0, 0};
      product.middle = {windows.kernel, padded.line, rows.taps * rows.columns};
      product.inner = {rows.taps, 1, rows.columns};
      run(rows.count, product);
    }
  });
}

template <typename T>
void kernel_slopes(const T* pixels, const T* slopes, T* out, int64_t outputs,
                   const Windows& windows) {
  const Padded<T> padded(pixels, windows);
  const Rows rows(outputs, VECTOR_BYTES / sizeof(T), windows);
  std::vector<T> wide;
  T* sums = out;
  if (rows.together > 1) {
    wide.resize(windows.kernel * rows.taps * rows.columns);
    sums = wide.data();
  }
  const int64_t result = windows.down * windows.across * outputs;
  const int64_t bytes = (padded.image + result) * sizeof(T);
  const int64_t at_once = std::max<int64_t>(1, AT_HAND_BYTES / bytes);
  for (int64_t first = 0; first < windows.images; first += at_once)
    for_strips<T>(rows.columns, rows.taps, [&](auto run, int64_t column) {
      for (int64_t y = 0; y < windows.kernel; ++y) {
        Product<T> product;
        product.left = padded.start + first * padded.image + y * padded.line;
        product.step = 1;
        product.right = slopes + first * result + column;
        product.out = sums + y * rows.taps * rows.columns + column;
        product.out_step = rows.columns;
        product.add = first > 0;
        product.outer = {std::min(at_once, windows.images - first), padded.image, result};
        product.middle = {windows.down, windows.stride * padded.line, windows.across * outputs};
        product.inner = {rows.count, rows.step, rows.columns};
        run(rows.taps, product);
      }
    });
  if (rows.together > 1) {
    std::fill(out, out + windows.kernel * windows.taps() * outputs, T(0));
    rows.for_places(windows, [&](int64_t to, int64_t from) { out[to] += sums[from]; });
  }
}

// ---- how torch's compiler calls it --------------------------------------------------------

#define CHECKED(call) \
  if (AOTITorchError error = (call)) return error

AOTITorchError data_of(AtenTensorHandle tensor, void** data, int64_t** sizes) {
  CHECKED(aoti_torch_get_sizes(tensor, sizes));
  return aoti_torch_get_data_ptr(tensor, data);
}

AOTITorchError like(AtenTensorHandle other, const int64_t (&sizes)[4], AtenTensorHandle* made,
                    void** data, bool* is_double) {
  int32_t dtype;
  CHECKED(aoti_torch_get_dtype(other, &dtype));
  *is_double = dtype == aoti_torch_dtype_float64();
  const int64_t strides[] = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
  CHECKED(aoti_torch_empty_strided(4, sizes, strides, dtype, aoti_torch_device_type_cpu(), 0, made));
  return aoti_torch_get_data_ptr(*made, data);
}

}  // namespace

extern "C" AOTITorchError aoti_torch_cpu_convolve(AtenTensorHandle images, AtenTensorHandle kernel,
                                                  int64_t stride, int64_t before, int64_t down,
                                                  int64_t across, AtenTensorHandle* made) {
  void *pixels, *weights, *out;
  int64_t *shape, *sides;
  bool is_double;
  CHECKED(data_of(images, &pixels, &shape));
  CHECKED(data_of(kernel, &weights, &sides));
  CHECKED(like(images, {shape[0], down, across, sides[3]}, made, &out, &is_double));
  const Windows windows{shape[0], shape[1], shape[2], shape[3], sides[0],
                        stride,   before,   down,     across};
  if (is_double)
    convolve((double*)pixels, (double*)weights, (double*)out, sides[3], windows);
  else
    convolve((float*)pixels, (float*)weights, (float*)out, sides[3], windows);
  return AOTI_TORCH_SUCCESS;
}

extern "C" AOTITorchError aoti_torch_cpu_kernel_slopes(AtenTensorHandle images,
                                                       AtenTensorHandle slopes, int64_t side,
                                                       int64_t stride, int64_t before,
                                                       AtenTensorHandle* made) {
  void *pixels, *given, *out;
  int64_t *shape, *sides;
  bool is_double;
  CHECKED(data_of(images, &pixels, &shape));
  CHECKED(data_of(slopes, &given, &sides));
  CHECKED(like(images, {side, side, shape[3], sides[3]}, made, &out, &is_double));
  const Windows windows{shape[0], shape[1], shape[2], shape[3], side,
                        stride,   before,   sides[1], sides[2]};
  if (is_double)
    kernel_slopes((double*)pixels, (double*)given, (double*)out, sides[3], windows);
  else
    kernel_slopes((float*)pixels, (float*)given, (float*)out, sides[3], windows);
  return AOTI_TORCH_SUCCESS;
}
