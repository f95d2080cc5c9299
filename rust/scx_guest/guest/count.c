/* SPDX-License-Identifier: GPL-2.0 */
/*
 * guest-count: begin or end a span of counting, inside the guest
 *
 *	guest-count begin [NAME]
 *	guest-count end
 *
 * Executes an instruction that does nothing, and at which the model of caches
 * begins to count, if there is one (plugin/caches.c): RAX says which of the two
 * it is, RDI and RSI have the name and its length, RDX the time. A program that
 * has more to say about when can do the same.
 *
 * Exits with 2 for other words. No C library, as guest-clock.
 */

#define SYS_CLOCK_GETTIME 228
#define SYS_EXIT	  60
#define CLOCK_MONOTONIC	  1
#define NSEC_PER_SEC	  1000000000L

/* Also in plugin/caches.c. */
#define MARK_BEGIN 0x62656701L
#define MARK_END   0x62656702L

struct timespec {
	long tv_sec;
	long tv_nsec;
};

static long syscall2(long nr, long a, long b)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b)
			 : "rcx", "r11", "memory");
	return ret;
}

static void mark(long what, const char *name, long length)
{
	struct timespec now;

	syscall2(SYS_CLOCK_GETTIME, CLOCK_MONOTONIC, (long)&now);
	__asm__ volatile("xchg %%bx, %%bx"
			 :
			 : "a"(what), "D"(name), "S"(length),
			   "d"(now.tv_sec * NSEC_PER_SEC + now.tv_nsec)
			 : "memory");
}

static long length_of(const char *text)
{
	long length = 0;

	while (text[length])
		length++;
	return length;
}

static int is_same(const char *one, const char *other)
{
	while (*one && *one == *other)
		one++, other++;
	return *one == *other;
}

/* Return the exit status. */
static long run(long argc, char **argv)
{
	if (argc == 2 && is_same(argv[1], "end"))
		mark(MARK_END, 0, 0);
	else if (argc == 2 && is_same(argv[1], "begin"))
		mark(MARK_BEGIN, 0, 0);
	else if (argc == 3 && is_same(argv[1], "begin"))
		mark(MARK_BEGIN, argv[2], length_of(argv[2]));
	else
		return 2;
	return 0;
}

__attribute__((used)) void start_c(long *stack)
{
	syscall2(SYS_EXIT, run(stack[0], (char **)(stack + 1)), 0);
}

/* The kernel enters with argc at the stack pointer and no frame below it. */
__asm__(".globl _start\n"
	"_start:\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call start_c\n");
