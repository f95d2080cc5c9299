/* SPDX-License-Identifier: GPL-2.0 */
/*
 * walk: accesses of which it is known what they meet, for the tests of caches
 *
 *	walk pass CPU KIB PASSES	read a buffer's lines one after the other
 *	walk move KIB FROM TO OP	do so twice on one CPU, then twice on another
 *	walk turns CPU CPU TURNS	two CPUs write one line in turn
 *	walk visit CPUS			4096 reads on CPU 0, 8192 on CPU 1 and so on
 *	walk filter PACKETS		packets that a BPF program of 6 looks at
 *
 * Each counts in a span of its own name. Buffers are of huge pages, so that
 * their lines lie in as many sets as they can, and were walked once before the
 * span. OP is read or write. Exits with 1 if the kernel refuses something.
 */

#define SYS_WRITE	      1
#define SYS_MMAP	      9
#define SYS_MADVISE	      28
#define SYS_READ	      0
#define SYS_SOCKETPAIR	      53
#define SYS_SETSOCKOPT	      54
#define SYS_FORK	      57
#define SYS_EXIT	      60
#define SYS_WAIT4	      61
#define SYS_SCHED_SETAFFINITY 203
#define SYS_CLOCK_GETTIME     228

#define PROT_READ_WRITE	 3
#define MAP_SHARED	 1
#define MAP_PRIVATE	 2
#define MAP_ANONYMOUS	 0x20
#define MADV_HUGEPAGE	 14
#define AF_UNIX		 1
#define SOCK_DGRAM	 2
#define SOL_SOCKET	 1
#define SO_ATTACH_FILTER 26

#define HUGE_PAGE 0x200000L
#define LINE	  64L

/* Also in plugin/caches.c. */
#define MARK_BEGIN 0x62656701L
#define MARK_END   0x62656702L

struct timespec {
	long tv_sec;
	long tv_nsec;
};

struct sock_filter {
	unsigned short code;
	unsigned char jt, jf;
	unsigned int k;
};

struct sock_fprog {
	unsigned short len;
	struct sock_filter *filter;
};

struct turns {
	volatile long whose;
	volatile long sum;
};

static long syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
			   "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

static void leave(long status)
{
	syscall6(SYS_EXIT, status, 0, 0, 0, 0, 0);
}

/* Return @value, which is what a system call returned, unless it failed. */
static long check(long value)
{
	if (value < 0)
		leave(1);
	return value;
}

static void mark(long what, const char *name)
{
	struct timespec now;
	long length = 0;

	while (name[length])
		length++;
	syscall6(SYS_CLOCK_GETTIME, 1, (long)&now, 0, 0, 0, 0);
	__asm__ volatile("xchg %%bx, %%bx"
			 :
			 : "a"(what), "D"(name), "S"(length),
			   "d"(now.tv_sec * 1000000000L + now.tv_nsec)
			 : "memory");
}

static long number(const char *text)
{
	long value = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (*text - '0');
	return value;
}

static void run_on(long cpu)
{
	unsigned long mask[4] = {0};

	mask[cpu / 64] = 1ul << cpu % 64;
	check(syscall6(SYS_SCHED_SETAFFINITY, 0, sizeof(mask), (long)mask, 0, 0,
		       0));
}

/* Return @size bytes that begin a huge page, or of several. */
static volatile char *huge(long size)
{
	long whole = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	long at =
		check(syscall6(SYS_MMAP, 0, whole + HUGE_PAGE, PROT_READ_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

	at = (at + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	/* Of a kernel without such pages those of a new guest do as well. */
	syscall6(SYS_MADVISE, at, whole, MADV_HUGEPAGE, 0, 0, 0);
	for (long i = 0; i < whole; i += LINE)
		((volatile char *)at)[i] = 1;
	return (volatile char *)at;
}

static void walk(volatile char *buffer, long size, long nr_passes, int is_write)
{
	while (nr_passes--) {
		for (long i = 0; i < size; i += LINE) {
			if (is_write)
				buffer[i] = 1;
			else
				(void)buffer[i];
		}
	}
}

static void pass(long cpu, long size, long nr_passes)
{
	volatile char *buffer;

	run_on(cpu);
	buffer = huge(size);
	mark(MARK_BEGIN, "warm");
	walk(buffer, size, 1, 0);
	mark(MARK_BEGIN, "pass");
	walk(buffer, size, nr_passes, 0);
	mark(MARK_END, "");
}

static void move(long size, long from, long to, int is_write)
{
	volatile char *buffer;

	run_on(from);
	buffer = huge(size);
	mark(MARK_BEGIN, "warm");
	walk(buffer, size, 2, is_write);
	mark(MARK_BEGIN, "move");
	run_on(to);
	walk(buffer, size, 2, is_write);
	mark(MARK_END, "");
}

static void take_turns(struct turns *turns, long me, long nr_turns)
{
	while (nr_turns--) {
		while (turns->whose != me)
			__asm__ volatile("pause");
		turns->sum++;
		turns->whose = !me;
	}
}

static void two_take_turns(long one, long other, long nr_turns)
{
	struct turns *turns = (struct turns *)check(
		syscall6(SYS_MMAP, 0, 4096, PROT_READ_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0));

	turns->whose = 0;
	if (!check(syscall6(SYS_FORK, 0, 0, 0, 0, 0, 0))) {
		run_on(other);
		take_turns(turns, 1, nr_turns + 1);
		leave(0);
	}
	run_on(one);
	/* From when on the other one is there. */
	take_turns(turns, 0, 1);
	while (turns->whose)
		__asm__ volatile("pause");
	mark(MARK_BEGIN, "turns");
	take_turns(turns, 0, nr_turns);
	while (turns->whose)
		__asm__ volatile("pause");
	mark(MARK_END, "");
	check(syscall6(SYS_WAIT4, -1, 0, 0, 0, 0, 0));
}

static void visit(long nr_cpus)
{
	static volatile char buffer[1024];

	mark(MARK_BEGIN, "visit");
	for (long cpu = 0; cpu < nr_cpus; cpu++) {
		run_on(cpu);
		walk(buffer, sizeof(buffer), 256 * (cpu + 1), 0);
	}
	mark(MARK_END, "");
}

static void filter(long nr_packets)
{
	/* Add 1 four times to 60000 and accept as many bytes of the packet. */
	static struct sock_filter insns[] = {
		{0x00, 0, 0, 60000}, {0x04, 0, 0, 1}, {0x04, 0, 0, 1},
		{0x04, 0, 0, 1},     {0x04, 0, 0, 1}, {0x16, 0, 0, 0},
	};
	struct sock_fprog program = {sizeof(insns) / sizeof(*insns), insns};
	char packet[16] = {0};
	int sockets[2];

	check(syscall6(SYS_SOCKETPAIR, AF_UNIX, SOCK_DGRAM, 0, (long)sockets, 0,
		       0));
	check(syscall6(SYS_SETSOCKOPT, sockets[1], SOL_SOCKET, SO_ATTACH_FILTER,
		       (long)&program, sizeof(program), 0));
	mark(MARK_BEGIN, "filter");
	while (nr_packets--) {
		check(syscall6(SYS_WRITE, sockets[0], (long)packet,
			       sizeof(packet), 0, 0, 0));
		check(syscall6(SYS_READ, sockets[1], (long)packet,
			       sizeof(packet), 0, 0, 0));
	}
	mark(MARK_END, "");
}

static long run(long argc, char **argv)
{
	char what = argc > 2 ? argv[1][0] : 0;

	if (what == 'p' && argc == 5)
		pass(number(argv[2]), number(argv[3]) * 1024, number(argv[4]));
	else if (what == 'm' && argc == 6)
		move(number(argv[2]) * 1024, number(argv[3]), number(argv[4]),
		     argv[5][0] == 'w');
	else if (what == 't' && argc == 5)
		two_take_turns(number(argv[2]), number(argv[3]),
			       number(argv[4]));
	else if (what == 'v')
		visit(number(argv[2]));
	else if (what == 'f')
		filter(number(argv[2]));
	else
		return 2;
	return 0;
}

__attribute__((used)) void start_c(long *stack)
{
	leave(run(stack[0], (char **)(stack + 1)));
}

/* The kernel enters with argc at the stack pointer and no frame below it. */
__asm__(".globl _start\n"
	"_start:\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call start_c\n");
