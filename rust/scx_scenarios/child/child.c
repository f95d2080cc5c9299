/* SPDX-License-Identifier: GPL-2.0 */
/*
 * child: the short process of fork loads
 *
 *	NAME CPU_US RUNS SLEEP_US
 *
 * Takes the name of its first argument, uses CPU_US of its own CPU time RUNS
 * times, sleeping SLEEP_US in between, and exits with 0.
 *
 * It has no C library, so that starting it costs fork, exec and exit and
 * hardly anything else: what a dynamic linker does is the same work under
 * every scheduler and would only dilute the figures. Starting a real program
 * is stood for by the CPU time it is told to use.
 */

#define CHUNK_ROUNDS		700
#define NSEC_PER_SEC		1000000000L
#define NSEC_PER_USEC		1000L
#define CLOCK_THREAD_CPUTIME_ID 3
#define PR_SET_NAME		15
#define PR_SET_TIMERSLACK	29
#define EXIT_USAGE		2

struct timespec {
	long tv_sec;
	long tv_nsec;
};

#if defined(__x86_64__)

#define SYS_NANOSLEEP	  35
#define SYS_EXIT_GROUP	  231
#define SYS_PRCTL	  157
#define SYS_CLOCK_GETTIME 228

static long syscall2(long nr, long a, long b)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b)
			 : "rcx", "r11", "memory");
	return ret;
}

/* The stack begins with argc and argv and is aligned for a call. */
__asm__(".global _start\n"
	"_start:\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call start\n");

#elif defined(__aarch64__)

#define SYS_NANOSLEEP	  101
#define SYS_EXIT_GROUP	  94
#define SYS_PRCTL	  167
#define SYS_CLOCK_GETTIME 113

static long syscall2(long nr, long a, long b)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory");
	return x0;
}

__asm__(".global _start\n"
	"_start:\n"
	"	mov x0, sp\n"
	"	bl start\n");

#else
#error "child.c has no system calls for this architecture"
#endif

static long cpu_ns(void)
{
	struct timespec now;

	syscall2(SYS_CLOCK_GETTIME, CLOCK_THREAD_CPUTIME_ID, (long)&now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* The same chunk of work as Work::chunk() of the bench. */
static void burn_cpu(long ns)
{
	unsigned long x = 0x9e3779b97f4a7c15;
	long until_ns = cpu_ns() + ns;
	int i;

	while (cpu_ns() < until_ns) {
		for (i = 0; i < CHUNK_ROUNDS; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
		}
		__asm__ volatile("" : "+r"(x));
	}
}

/* Return the number at @text; what follows its digits is ignored. */
static long parse_number(const char *text)
{
	long number = 0;

	while (*text >= '0' && *text <= '9')
		number = number * 10 + (*text++ - '0');
	return number;
}

__attribute__((used, noreturn)) void start(long *stack)
{
	long argc = stack[0];
	char **argv = (char **)&stack[1];
	long status = EXIT_USAGE;

	if (argc == 4) {
		long work_ns = parse_number(argv[1]) * NSEC_PER_USEC;
		long nr_runs = parse_number(argv[2]);
		struct timespec sleep = {
			.tv_nsec = parse_number(argv[3]) * NSEC_PER_USEC,
		};
		long run;

		syscall2(SYS_PRCTL, PR_SET_NAME, (long)argv[0]);
		syscall2(SYS_PRCTL, PR_SET_TIMERSLACK, 1);
		for (run = 0; run < nr_runs; run++) {
			if (run > 0)
				syscall2(SYS_NANOSLEEP, (long)&sleep, 0);
			burn_cpu(work_ns);
		}
		status = 0;
	}
	for (;;)
		syscall2(SYS_EXIT_GROUP, status, 0);
}
