//! Queues that store their first elements in place.
//!
//! Most queues of a queue pair hold one or two elements. Their memory is then that of the queue pair, which is in the
//! cache already, and no element of a ring buffer that moves on with each packet.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A first-in-first-out queue that stores its first `N` elements in place.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct InlineQueue<T, const N: usize = 1> {
    /// The oldest elements, oldest first. An element is `None` only if all later elements are `None`.
    first: [Option<T>; N],
    /// The other elements. Empty if `first` has space.
    rest: VecDeque<T>,
}

impl<T, const N: usize> Default for InlineQueue<T, N> {
    fn default() -> InlineQueue<T, N> {
        const { assert!(N > 0) };
        InlineQueue {
            first: std::array::from_fn(|_| None),
            rest: VecDeque::new(),
        }
    }
}

impl<T, const N: usize> InlineQueue<T, N> {
    /// Returns whether the queue has no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first[0].is_none()
    }

    /// Adds an element at the back.
    #[inline]
    pub fn push_back(&mut self, element: T) {
        match self.first.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(element),
            None => self.rest.push_back(element),
        }
    }

    /// Removes the oldest element and returns it.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let has_rest = self.first[N - 1].is_some() && !self.rest.is_empty();
        let oldest = self.first[0].take();
        for index in 1..N {
            self.first[index - 1] = self.first[index].take();
        }
        if has_rest {
            self.first[N - 1] = self.rest.pop_front();
        }
        oldest
    }

    /// Returns the oldest element.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.first[0].as_ref()
    }

    /// Returns the element at a position, counted from 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        match self.first.get(index) {
            Some(place) => place.as_ref(),
            None => self.rest.get(index - N),
        }
    }

    /// Returns the element at a position for changes, see [`InlineQueue::get`].
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match self.first.get_mut(index) {
            Some(place) => place.as_mut(),
            None => self.rest.get_mut(index - N),
        }
    }

    /// Returns the number of elements at the front for which `belongs` is true. The elements must be sorted so that
    /// these come first.
    pub fn partition_point(&self, mut belongs: impl FnMut(&T) -> bool) -> usize {
        for (index, place) in self.first.iter().enumerate() {
            if !place.as_ref().is_some_and(&mut belongs) {
                return index;
            }
        }
        N + self.rest.partition_point(belongs)
    }

    /// Returns the elements, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.first.iter().flatten().chain(&self.rest)
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        self.first = std::array::from_fn(|_| None);
        self.rest.clear();
    }

    /// Removes the elements that the caller takes from the iterator, oldest first.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.pop_front())
    }
}

/// A priority queue that removes the smallest element first.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct InlineHeap<T> {
    /// The smallest element. `None` only if the queue is empty.
    first: Option<T>,
    rest: BinaryHeap<Reverse<T>>,
}

impl<T: Ord> Default for InlineHeap<T> {
    fn default() -> InlineHeap<T> {
        InlineHeap {
            first: None,
            rest: BinaryHeap::new(),
        }
    }
}

impl<T: Ord> InlineHeap<T> {
    #[inline]
    pub(super) fn push(&mut self, element: T) {
        match &mut self.first {
            None => self.first = Some(element),
            Some(first) if element < *first => {
                let second = std::mem::replace(first, element);
                self.rest.push(Reverse(second));
            }
            Some(_) => self.rest.push(Reverse(element)),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let first = self.first.take();
        if !self.rest.is_empty() {
            self.first = self.rest.pop().map(|Reverse(element)| element);
        }
        first
    }

    /// Returns the smallest element.
    #[inline]
    pub(super) fn peek(&self) -> Option<&T> {
        self.first.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_testing::random_generator;

    #[test]
    fn a_queue_acts_like_a_ring_buffer() {
        compare_with_ring_buffer(&mut InlineQueue::<u64>::default());
        compare_with_ring_buffer(&mut InlineQueue::<u64, 2>::default());
        compare_with_ring_buffer(&mut InlineQueue::<u64, 3>::default());
    }

    fn compare_with_ring_buffer<const N: usize>(queue: &mut InlineQueue<u64, N>) {
        let (mut draw, mut model) = (random_generator(1), VecDeque::new());
        for step in 0..2_000_u64 {
            match draw(5) {
                0 | 1 => {
                    queue.push_back(step);
                    model.push_back(step);
                }
                2 | 3 => assert_eq!(queue.pop_front(), model.pop_front()),
                _ if draw(20) == 0 => {
                    assert!(queue.drain().eq(model.drain(..)));
                }
                _ if draw(20) == 0 => {
                    queue.clear();
                    model.clear();
                }
                _ => {
                    let index = draw(6) as usize;
                    assert_eq!(queue.get_mut(index), model.get_mut(index));
                }
            }
            let limit = step.saturating_sub(draw(8));
            assert_eq!(queue.is_empty(), model.is_empty());
            assert_eq!(queue.front(), model.front());
            assert!(queue.iter().eq(model.iter()) && queue.iter().rev().eq(model.iter().rev()));
            assert!((0..6).all(|index| queue.get(index) == model.get(index)));
            assert_eq!(
                queue.partition_point(|element| *element < limit),
                model.partition_point(|element| *element < limit)
            );
        }
    }

    #[test]
    fn a_heap_returns_the_smallest_element_first() {
        let mut draw = random_generator(2);
        let (mut heap, mut model) = (InlineHeap::default(), Vec::new());
        for step in 0..2_000_u64 {
            let smallest = model.iter().min().copied();
            assert_eq!(heap.peek().copied(), smallest);
            if draw(2) == 0 {
                let element = (draw(9), step);
                heap.push(element);
                model.push(element);
            } else {
                assert_eq!(heap.pop(), smallest);
                model.retain(|element| Some(*element) != smallest);
            }
        }
    }
}
