/* SPDX-License-Identifier: GPL-2.0 */
/*
 * guest-clock: small scheduling quanta and a shifted start, inside the guest
 *
 *	guest-clock DIVISOR DELAY_US
 *
 *   1. Let channel 0 of the legacy timer (PIT) give a square wave of 1193182
 *      Hz / DIVISOR. Under an instruction-counting clock a virtual CPU runs
 *      until the next virtual timer, whichever device that belongs to. The
 *      kernel itself arms none between two ticks, so an interrupt from one
 *      busy CPU to another would otherwise wait for up to a tick. Both edges
 *      end a turn and only one interrupts the guest, which is what costs the
 *      host time. DIVISOR 0 leaves the timer alone.
 *   2. Spin for DELAY_US, so that what starts next meets the tick at another
 *      phase.
 *
 * Not here: anything about the programs that run afterwards. /init calls this
 * once. No C library, and port access by iopl() rather than /dev/port, since
 * small kernels have no /dev/port.
 */

#define SYS_IOPL	  172
#define SYS_CLOCK_GETTIME 228
#define SYS_EXIT	  60
#define CLOCK_MONOTONIC	  1
#define NSEC_PER_SEC	  1000000000L
#define NSEC_PER_USEC	  1000L

#define PIT_CHANNEL_0 0x40
#define PIT_COMMAND   0x43
/* Channel 0, low byte then high byte, square wave, binary. */
#define PIT_COMMAND_SQUARE 0x36

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

static void outb(unsigned short port, unsigned char value)
{
	__asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

/* Return the number at @text, or -1 if it is anything else. */
static long parse_number(const char *text)
{
	long number = 0;

	if (!*text)
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || number > 100000000)
			return -1;
		number = number * 10 + (*text - '0');
	}
	return number;
}

static long now_ns(void)
{
	struct timespec now;

	syscall2(SYS_CLOCK_GETTIME, CLOCK_MONOTONIC, (long)&now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* Return the exit status: 0, 1 if the ports are refused, 2 for bad words. */
static long run(long argc, char **argv)
{
	long divisor, delay_us, end_ns;

	if (argc != 3)
		return 2;
	divisor = parse_number(argv[1]);
	delay_us = parse_number(argv[2]);
	if (divisor < 0 || divisor > 0xffff || delay_us < 0)
		return 2;

	if (divisor) {
		if (syscall2(SYS_IOPL, 3, 0))
			return 1;
		outb(PIT_COMMAND, PIT_COMMAND_SQUARE);
		outb(PIT_CHANNEL_0, divisor & 0xff);
		outb(PIT_CHANNEL_0, divisor >> 8);
	}

	end_ns = now_ns() + delay_us * NSEC_PER_USEC;
	while (now_ns() < end_ns)
		;
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
