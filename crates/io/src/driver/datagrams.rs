//! Datagrams in batches: one system call receives many, one sends many.
//!
//! The buffers belong to the caller and are used again; nothing is allocated for a datagram. Equal datagrams to one peer
//! that lie together are cut by the kernel (UDP_SEGMENT), and those of one peer are received as one message (UDP_GRO), which
//! costs it one walk instead of many.

use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};

use super::socket::internet;

/// Messages received or sent by one system call.
pub const BATCH: usize = 32;

/// Longest datagram that UDP carries, rounded up.
pub const DATAGRAM_LEN_MAX: usize = 64 << 10;

/// Datagrams that wait to be sent.
const OUTBOX_MAX: usize = 512;

/// Bytes that wait to be sent.
const OUTBOX_BYTES_MAX: usize = 128 << 10;

/// What the kernel cuts in one go: less than the longest datagram, and not more pieces than it takes.
const RUN_LEN_MAX: usize = 60_000;
const RUN_PIECES_MAX: usize = 64;

/// Datagrams that are taken of one message. Kernels put 64 or 128 together; what is beyond is lost, as datagrams may be.
const PIECES_MAX: usize = 256;

/// Kernel buffers asked for; what it gives is bounded by `net.core.rmem_max` and `net.core.wmem_max`.
const KERNEL_BUFFER_LEN: usize = 4 << 20;

/// A UDP socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// Whether the kernel cuts runs for us.
    cuts: bool,
    /// Whether all it sends goes to one peer, of whom alone it receives.
    is_connected: bool,
}

/// Received datagrams.
#[derive(Debug)]
pub struct Inbox {
    /// A slot for each message.
    bytes: Box<[u8]>,
    arrived: Vec<Arrived>,
}

/// A received datagram.
#[derive(Debug)]
struct Arrived {
    start: u32,
    len: u32,
    from: SocketAddr,
}

/// Datagrams on their way out, back to back.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// Where each ends, and where it goes.
    departing: Vec<(usize, SocketAddr)>,
}

/// An address as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy)]
union RawAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

/// The control message that asks for a run to be cut, or says how long the pieces of a message are.
#[repr(C)]
#[derive(Clone, Copy)]
struct Pieces {
    header: libc::cmsghdr,
    len: [u8; 8],
}

impl Socket {
    /// `count` sockets on one address, among which the kernel spreads peers; port 0 takes a free one. An IPv6 socket takes
    /// IPv6 only.
    ///
    /// # Errors
    /// The address is taken, not ours, or not allowed.
    pub fn group(address: SocketAddr, count: usize) -> io::Result<Vec<Socket>> {
        // Sockets of a group do not exclude each other, or another server's group: the first one asks alone.
        let alone = Socket::open(address, false)?;
        let address = alone.address()?;
        drop(alone);
        (0..count).map(|_| Socket::open(address, true)).collect()
    }

    fn open(address: SocketAddr, shared: bool) -> io::Result<Socket> {
        let fd = internet(&address, SocketType::DGRAM)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        sockopt::set_socket_reuseport(&fd, shared)?;
        ask_for_buffers(&fd);
        rustix::net::bind(&fd, &address)?;
        Ok(Socket::of(fd, false))
    }

    /// A socket that sends to `peer` and receives of it alone; whom an outbox names is not looked at.
    ///
    /// # Errors
    /// No descriptors or ports left. That nobody listens there shows with what is received first.
    pub fn connect(peer: SocketAddr) -> io::Result<Socket> {
        let fd = internet(&peer, SocketType::DGRAM)?;
        ask_for_buffers(&fd);
        rustix::net::connect(&fd, &peer)?;
        Ok(Socket::of(fd, true))
    }

    fn of(fd: OwnedFd, is_connected: bool) -> Socket {
        let on: libc::c_int = 1;
        // SAFETY: the option's value is the number named here, of the length named here, and only read.
        let _ = unsafe {
            // Only asked for: a kernel without it brings each datagram by itself.
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_GRO,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        Socket {
            fd,
            cuts: true,
            is_connected,
        }
    }

    /// A socket that another process opened.
    ///
    /// # Errors
    /// It is no socket.
    pub fn adopt(fd: OwnedFd) -> io::Result<Socket> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Socket::of(fd, false))
    }

    /// The same socket once more.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn try_clone(&self) -> io::Result<Socket> {
        Ok(Socket {
            fd: self.fd.try_clone()?,
            ..*self
        })
    }

    /// The address that it is bound to, with the real port.
    ///
    /// # Errors
    /// None that is known.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let any = rustix::net::getsockname(&self.fd)?;
        Ok(SocketAddr::try_from(any)?)
    }

    pub(super) fn fd(&self) -> impl AsFd {
        self.fd.as_fd()
    }

    /// Fills `inbox` with what is there, as many messages as it has room for.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there.
    pub(super) fn receive(&mut self, inbox: &mut Inbox) -> io::Result<()> {
        inbox.arrived.clear();
        let mut addresses = [RawAddress::UNKNOWN; BATCH];
        let mut lens = [Pieces::of(0); BATCH];
        // SAFETY: all of these are plain numbers and pointers, for which zero is a value.
        let (mut pieces, mut headers) = unsafe { zeroed::<([libc::iovec; BATCH], [libc::mmsghdr; BATCH])>() };
        let slots = inbox.bytes.chunks_exact_mut(DATAGRAM_LEN_MAX);
        let count = slots.len();
        let places = pieces.iter_mut().zip(&mut addresses).zip(&mut lens);
        for ((header, ((piece, address), len)), slot) in headers.iter_mut().zip(places).zip(slots) {
            piece.iov_base = slot.as_mut_ptr().cast();
            piece.iov_len = slot.len();
            header.msg_hdr.msg_name = (&raw mut *address).cast();
            header.msg_hdr.msg_namelen = size_of::<RawAddress>() as libc::socklen_t;
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = (&raw mut *len).cast();
            header.msg_hdr.msg_controllen = size_of::<Pieces>() as _;
        }
        // SAFETY: each of the first `count` headers names one address, one piece and one control message of the arrays above,
        // each piece a slot of the inbox; an inbox has BATCH slots at most. All of them are live until after the call, and no
        // other reference to them is used in between.
        let count = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                count as libc::c_uint,
                0,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (slot, header) in headers.iter().enumerate().take(count) {
            // A datagram whose sender cannot be told is kept with no bytes: nobody can be answered.
            let nobody = (0, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
            let from = addresses[slot].get();
            let (len, from) = from.map_or(nobody, |from| (header.msg_len as usize, from));
            let piece_len = lens[slot].get(header.msg_hdr.msg_controllen as _);
            inbox.add(slot, len, piece_len, from);
        }
        Ok(())
    }

    /// Sends and clears `outbox`; returns how many datagrams could not be sent. They are lost, as datagrams may be.
    pub(super) fn send(&mut self, outbox: &mut Outbox) -> usize {
        let mut lost = 0;
        let mut next = 0;
        while next < outbox.departing.len() {
            let (sent, tried, result) = self.send_some(outbox, next);
            next += sent;
            match result {
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => {
                    lost += outbox.departing.len() - next;
                    break;
                }
                // This kernel, or the way there, cannot cut.
                Err(_) if tried > 1 && self.cuts => self.cuts = false,
                Err(_) => {
                    lost += tried;
                    next += tried;
                }
            }
        }
        outbox.clear();
        lost
    }

    /// One system call for datagrams from `first` on: how many went, how many the next message holds if it failed.
    fn send_some(&self, outbox: &Outbox, first: usize) -> (usize, usize, Result<(), Errno>) {
        let mut addresses = [RawAddress::UNKNOWN; BATCH];
        let mut cuts = [Pieces::of(0); BATCH];
        let mut counts = [0; BATCH];
        // SAFETY: all of these are plain numbers and pointers, for which zero is a value.
        let (mut pieces, mut headers) = unsafe { zeroed::<([libc::iovec; BATCH], [libc::mmsghdr; BATCH])>() };
        let (mut next, mut used) = (first, 0);
        while used < BATCH && next < outbox.departing.len() {
            let run = outbox.run(next, self.cuts);
            let (start, end) = (outbox.start(next), outbox.departing[next + run - 1].0);
            pieces[used].iov_base = outbox.bytes[start..end].as_ptr().cast_mut().cast();
            pieces[used].iov_len = end - start;
            let header = &mut headers[used].msg_hdr;
            if !self.is_connected {
                addresses[used] = RawAddress::of(outbox.departing[next].1);
                header.msg_name = (&raw mut addresses[used]).cast();
                header.msg_namelen = RawAddress::len(outbox.departing[next].1);
            }
            header.msg_iov = &raw mut pieces[used];
            header.msg_iovlen = 1;
            if run > 1 {
                cuts[used] = Pieces::of((outbox.departing[next].0 - start) as u16);
                header.msg_control = (&raw mut cuts[used]).cast();
                header.msg_controllen = size_of_val(&cuts[used]) as _;
            }
            counts[used] = run;
            next += run;
            used += 1;
        }
        // SAFETY: the first `used` headers name addresses, pieces and control messages of the arrays above, all of them
        // live until after the call; the pieces lie in the outbox, which the call only reads.
        let sent = unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                used as libc::c_uint,
                libc::MSG_NOSIGNAL,
            )
        };
        match usize::try_from(sent) {
            Ok(sent) => (counts[..sent].iter().sum(), 0, Ok(())),
            Err(_) => {
                let error = io::Error::last_os_error();
                let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                (0, counts[0], Err(error))
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Only asked for: smaller ones lose more under a flood, and nothing else.
fn ask_for_buffers(fd: &OwnedFd) {
    let _ = sockopt::set_socket_recv_buffer_size(fd, KERNEL_BUFFER_LEN);
    let _ = sockopt::set_socket_send_buffer_size(fd, KERNEL_BUFFER_LEN);
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox::for_messages(BATCH)
    }
}

impl Inbox {
    /// With room for so many messages, 1 at least and [`BATCH`] at most.
    pub fn for_messages(count: usize) -> Inbox {
        let count = count.clamp(1, BATCH);
        Inbox {
            // Zeroed pages: the kernel gives those that are written to.
            bytes: vec![0; count * DATAGRAM_LEN_MAX].into_boxed_slice(),
            arrived: Vec::with_capacity(count),
        }
    }

    /// Adds what a message holds in its slot: one datagram, or several that are `piece_len` long but for the last, which may be
    /// shorter. A length that makes no sense is one datagram's.
    fn add(&mut self, slot: usize, len: usize, piece_len: usize, from: SocketAddr) {
        let piece_len = if (1..len).contains(&piece_len) {
            piece_len
        } else {
            len
        };
        let mut at = 0;
        for _ in 0..PIECES_MAX {
            let this_len = piece_len.min(len - at);
            self.arrived.push(Arrived {
                start: (slot * DATAGRAM_LEN_MAX + at) as u32,
                len: this_len as u32,
                from,
            });
            at += this_len;
            if at == len {
                break;
            }
        }
    }

    /// How many datagrams it holds.
    pub fn len(&self) -> usize {
        self.arrived.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.arrived.is_empty()
    }

    /// Adds a datagram that no kernel brought.
    ///
    /// # Panics
    /// If it is full, or the datagram too long.
    pub fn push(&mut self, datagram: &[u8], from: SocketAddr) {
        let slot = self.arrived.len();
        let start = slot * DATAGRAM_LEN_MAX;
        self.bytes[start..][..DATAGRAM_LEN_MAX][..datagram.len()].copy_from_slice(datagram);
        self.add(slot, datagram.len(), 0, from);
    }

    /// Drops what it holds.
    pub fn clear(&mut self) {
        self.arrived.clear();
    }

    /// The datagram at `index`, and who sent it.
    pub fn get(&self, index: usize) -> (&[u8], SocketAddr) {
        let Arrived { start, len, from } = self.arrived[index];
        (&self.bytes[start as usize..][..len as usize], from)
    }
}

impl Outbox {
    /// Whether it is to be sent before more is put into it.
    pub fn is_full(&self) -> bool {
        self.departing.len() >= OUTBOX_MAX || self.bytes.len() >= OUTBOX_BYTES_MAX
    }

    /// How many datagrams it holds.
    pub fn len(&self) -> usize {
        self.departing.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.departing.is_empty()
    }

    /// The bytes of the datagram that is being written; append only.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What was appended since the last call is a datagram to `peer`.
    pub fn finish(&mut self, peer: SocketAddr) {
        self.departing.push((self.bytes.len(), peer));
    }

    /// Each datagram with its peer.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], SocketAddr)> {
        (0..self.departing.len()).map(|index| {
            let (end, peer) = self.departing[index];
            (&self.bytes[self.start(index)..end], peer)
        })
    }

    /// Drops everything and keeps the buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.departing.clear();
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.departing[before].0)
    }

    /// How many datagrams from `first` on the kernel can cut from one piece: to one peer, equally long, but for the last,
    /// which may be shorter.
    fn run(&self, first: usize, cuts: bool) -> usize {
        let start = self.start(first);
        let (end, peer) = self.departing[first];
        let len = end - start;
        if !cuts || len == 0 {
            return 1;
        }
        let mut run = 1;
        for &(next_end, next_peer) in self.departing[first + 1..].iter().take(RUN_PIECES_MAX - 1) {
            let next_len = next_end - self.departing[first + run - 1].0;
            if next_peer != peer || next_len > len || next_len == 0 || next_end - start > RUN_LEN_MAX {
                break;
            }
            run += 1;
            if next_len < len {
                break;
            }
        }
        run
    }
}

impl RawAddress {
    const UNKNOWN: RawAddress = RawAddress {
        v6: libc::sockaddr_in6 {
            sin6_family: libc::AF_UNSPEC as libc::sa_family_t,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        },
    };

    fn len(address: SocketAddr) -> libc::socklen_t {
        match address {
            SocketAddr::V4(_) => size_of::<libc::sockaddr_in>() as libc::socklen_t,
            SocketAddr::V6(_) => size_of::<libc::sockaddr_in6>() as libc::socklen_t,
        }
    }

    fn of(address: SocketAddr) -> RawAddress {
        match address {
            SocketAddr::V4(address) => RawAddress {
                v4: libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(address.ip().octets()),
                    },
                    sin_zero: [0; 8],
                },
            },
            SocketAddr::V6(address) => RawAddress {
                v6: libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: address.ip().octets(),
                    },
                    sin6_scope_id: address.scope_id(),
                },
            },
        }
    }

    fn get(&self) -> Option<SocketAddr> {
        // SAFETY: every bit of both forms is written by `UNKNOWN` or `of`, and by the kernel over that; both begin with
        // the family, and any bits are a value of either.
        let (family, v4, v6) = unsafe { (i32::from(self.v6.sin6_family), self.v4, self.v6) };
        match family {
            libc::AF_INET => {
                let ip = IpAddr::V4(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()));
                Some(SocketAddr::new(ip, u16::from_be(v4.sin_port)))
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                let address = std::net::SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id);
                Some(SocketAddr::V6(address))
            }
            _ => None,
        }
    }
}

impl Pieces {
    fn of(len: u16) -> Pieces {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&len.to_ne_bytes());
        // Without its padding, as CMSG_LEN counts.
        let header_len = size_of::<libc::cmsghdr>() + size_of::<u16>();
        Pieces {
            header: libc::cmsghdr {
                cmsg_len: header_len as _,
                cmsg_level: libc::SOL_UDP,
                cmsg_type: libc::UDP_SEGMENT,
            },
            len: bytes,
        }
    }

    /// How long the pieces of a received message are, of whose control messages the kernel has written so many bytes; 0 if it
    /// does not say.
    fn get(&self, written: usize) -> usize {
        let header_len = size_of::<libc::cmsghdr>();
        let is_told = written >= header_len + size_of::<libc::c_int>()
            && (self.header.cmsg_level, self.header.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO);
        let [a, b, c, d, ..] = self.len;
        let told = Some(libc::c_int::from_ne_bytes([a, b, c, d])).filter(|_| is_told);
        told.and_then(|len| usize::try_from(len).ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
