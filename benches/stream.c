/* STREAM's four kernels, by its rules: arrays of so many doubles (the argument), the best of ten runs, MB of 10^6 bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
   struct timespec time;
   clock_gettime(CLOCK_MONOTONIC, &time);
   return time.tv_sec + 1e-9 * time.tv_nsec;
}

int main(int count, char **words)
{
   const size_t n = count > 1 ? strtoull(words[1], 0, 10) : 0;
   double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c), best[4] = {0};
   if (!n || !a || !b || !c)
      return 1;
   for (size_t i = 0; i < n; ++i)
      a[i] = 1, b[i] = 2, c[i] = 0;
   for (int run = 0; run < 10; ++run) {
      for (int kernel = 0; kernel < 4; ++kernel) {
         const double start = now();
         switch (kernel) {
         case 0: for (size_t i = 0; i < n; ++i) c[i] = a[i]; break;
         case 1: for (size_t i = 0; i < n; ++i) b[i] = 3 * c[i]; break;
         case 2: for (size_t i = 0; i < n; ++i) c[i] = a[i] + b[i]; break;
         case 3: for (size_t i = 0; i < n; ++i) a[i] = b[i] + 3 * c[i]; break;
         }
         const double rate = (kernel < 2 ? 2 : 3) * n * sizeof *a / (now() - start) / 1e6;
         if (rate > best[kernel])
            best[kernel] = rate;
      }
   }
   printf("%.1f %.1f %.1f %.1f\n", best[0], best[1], best[2], best[3]);
   return a[n / 2] + b[n / 2] + c[n / 2] == 0; /* so that nothing is left out */
}
